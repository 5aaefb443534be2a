"""Which algorithm limits the rate, and its phase: idle, one call, a burst, the boundary, off phase.

Run it: RANKSIM_KEY=... locust -f loadtests/windows.py --host https://api.example.com
"""

from ranksim.load.users import user_class

Windows = user_class("windows")
