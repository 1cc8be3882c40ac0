"""What people look at: HTML pages that need no other file, reports and plots of benchmark runs."""
