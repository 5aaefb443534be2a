// The control token of pages: it comes in an address, and is kept for this tab alone, out of histories and pictures.
"use strict";
const controlToken = (() => {
  const address = new URL(location.href), sent = address.searchParams.get("token");
  if (sent === null) return sessionStorage.getItem("ranksim-token") || "";
  address.searchParams.delete("token");
  history.replaceState(null, "", address);
  sessionStorage.setItem("ranksim-token", sent);
  return sent;
})();
