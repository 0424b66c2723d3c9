"""Engines that run a chain on several processes."""
