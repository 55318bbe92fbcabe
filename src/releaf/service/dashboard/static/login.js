// Log-in: returns to the page that required it, on this host.
const next = new URLSearchParams(location.search).get("next") ?? "/";
document.getElementById("next").value = /^\/(?![/\\])[\x21-\x7e]*$/.test(next) ? next : "/";
