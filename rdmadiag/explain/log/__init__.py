"""From a job's output to what failed first in it; pure: text in, values out."""
