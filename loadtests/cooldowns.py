"""Jobs asked for again shortly before their stated cooldowns end, and right after.

Run it: RANKSIM_KEY=... locust -f loadtests/cooldowns.py --host https://api.example.com
"""

from ranksim.load.users import user_class

Cooldowns = user_class("cooldowns")
