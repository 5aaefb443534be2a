"""Bursts beyond each rate limit, over its boundary, and a drip after it: off-by-one limits, scope.

Run it: RANKSIM_KEY=... locust -f loadtests/burst.py --host https://api.example.com
"""

from ranksim.load.users import user_class

Burst = user_class("burst")
