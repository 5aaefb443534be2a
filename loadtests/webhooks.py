"""Webhook attempts within the run: signature, body, types, scope, first retries, the count of 20.

Run it: RANKSIM_KEY=... locust -f loadtests/webhooks.py --host https://api.example.com
"""

from ranksim.load.users import user_class

Webhooks = user_class("webhooks")
