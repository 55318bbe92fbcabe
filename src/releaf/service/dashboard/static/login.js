// Where to go after signing in: back to the page that asked for it, on this host.
const next = new URLSearchParams(location.search).get("next") ?? "/";
document.getElementById("next").value = /^\/(?![/\\])[\x21-\x7e]*$/.test(next) ? next : "/";
