// Swagger UI over the service's document and, to whoever has the token, over the control API's.
"use strict";
(async () => {
  const token = controlToken;
  const bearer = token ? { Authorization: `Bearer ${token}` } : {};
  const options = { showExtensions: true, tryItOutEnabled: true, displayRequestDuration: true, validatorUrl: null };

  SwaggerUIBundle({ ...options, dom_id: "#service", url: "/docs/openapi.json", deepLinking: true });

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
