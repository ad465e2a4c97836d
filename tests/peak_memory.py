"""Runs a command and prints the most memory it had, in MiB: python3 peak_memory.py COMMAND..."""
import resource, subprocess, sys

status = subprocess.run(sys.argv[1:], stdout=sys.stderr).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)
sys.exit(status)
