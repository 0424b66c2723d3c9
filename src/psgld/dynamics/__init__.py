"""What moves a chain besides the data: metrics, step sizes, schedules."""
