"""Idempotent retries with lost responses: work once, the same reply, mismatches, twins in flight.

Run it: RANKSIM_KEY=... locust -f loadtests/retry.py --host https://api.example.com
"""

from ranksim.load.users import user_class

Retry = user_class("retry")
