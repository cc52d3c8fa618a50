"""A queue whose clients take turns: nobody waits for all that another client has queued."""

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from threading import Condition
from time import monotonic
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")


class TurnQueue(Generic[Key, Item]):
    """A queue between threads; the items of a client keep their order."""

    def __init__(self) -> None:
        self._lines: OrderedDict[str, dict[Key, tuple[Item, float]]] = OrderedDict()
        """By client, who is next first: its items and when they were queued."""
        self._served: list[str] = []  # whose items are in the last batch
        self._changed = Condition()
        self._is_closed = False

    def put(self, client: str, key: Key, item: Item) -> None:
        """Queue an item of a client."""
        with self._changed:
            self._lines.setdefault(client, {})[key] = item, monotonic()
            self._changed.notify()

    def remove(self, client: str, key: Key) -> None:
        """Forget an item, unless it was taken."""
        with self._changed:
            line = self._lines.get(client, {})
            if line.pop(key, None) and not line:
                del self._lines[client]

    def close(self) -> None:
        """Let `batches` end when the queue is empty."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def times(self) -> list[float]:
        """Return when each item was queued."""
        with self._changed:
            return [time for line in self._lines.values() for _, time in line.values()]

    def batches(self, size: int, seconds: float) -> Iterator[list[tuple[Item, Key]]]:
        """Yield up to `size` items at a time; where there are fewer, wait some seconds for more."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines or self._is_closed)
                if not self._lines:
                    return
                self._changed.wait_for(lambda: self._is_closed or self._holds(size), seconds)
                for client in self._served:  # behind those who came while they were served
                    if client in self._lines:
                        self._lines.move_to_end(client)
                self._served.clear()
                batch = [self._next() for _ in range(size) if self._lines]
            yield batch

    def _holds(self, size: int) -> bool:
        return sum(map(len, self._lines.values())) >= size

    def _next(self) -> tuple[Item, Key]:
        client, line = self._lines.popitem(last=False)
        key = next(iter(line))
        item, _ = line.pop(key)
        if line:
            self._lines[client] = line  # behind the others
        self._served.append(client)
        return item, key
