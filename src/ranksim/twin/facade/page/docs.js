// Swagger UI over the service's document and, to whoever has the token, over the control API's.
"use strict";
(async () => {
  const token = controlToken;
  const bearer = token ? { Authorization: `Bearer ${token}` } : {};
  const showExtensions = new URLSearchParams(location.search).has("assumptions"); // on demand: there are hundreds
  const options = { showExtensions, filter: true, tryItOutEnabled: true, displayRequestDuration: true, validatorUrl: null };

  // Offers the key of the first account, so that the first call needs none to be typed.
  async function offerKey(form) {
    const answer = token && await fetch("/_ranksim/overview", { headers: bearer });
    const account = answer && answer.ok && (await answer.json()).accounts[0];
    const key = account && account.keys.find((one) => !one.domain_id);
    if (key) form.preauthorizeApiKey("bearer", key.key);
  }

  const form = SwaggerUIBundle({ ...options, dom_id: "#service", url: "/openapi.json", deepLinking: true, onComplete: () => offerKey(form) });

  const answer = await fetch("/docs/control.json", { headers: bearer });
  if (answer.ok) {
    const requestInterceptor = (request) => {
      Object.assign(request.headers, bearer);
      return request;
    };
    SwaggerUIBundle({ ...options, dom_id: "#control", spec: await answer.json(), requestInterceptor });
  } else {
    const unlock = document.getElementById("unlock");
    unlock.hidden = false;
    if (token) unlock.querySelector("[role=status]").textContent = "This is not the token of this deployment.";
  }
})();
