"""Access: missing and unknown keys, the other environment, domain scope, other accounts.

Run it: RANKSIM_KEY=... locust -f loadtests/scope.py --host https://api.example.com
"""

from ranksim.load.users import user_class

Scope = user_class("scope")
