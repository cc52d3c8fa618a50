from hypothesis import settings

settings.register_profile("jpr", deadline=None)  # machines are noisy; speed is for benchmarks
settings.load_profile("jpr")
