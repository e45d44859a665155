"""The two models that trials train: a multi-head Nadaraya-Watson estimator and a small decoder.

Importing this package loads no torch; its modules do.
"""
