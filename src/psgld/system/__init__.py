"""What is asked of the machine: files that are read without trust and written all or nothing, locks, memory, cores."""
