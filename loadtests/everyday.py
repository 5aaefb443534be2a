"""Mixed everyday traffic. Run it: RANKSIM_KEY=... locust -f loadtests/everyday.py --host https://..."""

from ranksim.load.users import user_class

Everyday = user_class("everyday")
