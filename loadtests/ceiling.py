"""Jobs until an account is at its cost ceiling, and each check beside that one.

Run it: RANKSIM_KEY=... locust -f loadtests/ceiling.py --host https://api.example.com
"""

from ranksim.load.users import user_class

Ceiling = user_class("ceiling")
