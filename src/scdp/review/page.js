"use strict";
// Keys for the open question, and figures that follow the learning. The page works without this script too.
const form = document.querySelector("form.question");

function press(name) {
  const button = document.querySelector(`[data-key="${name}"]`);
  if (button && !button.disabled) button.click();
}

// The digit of a record moves it to the next group that it may be in.
function move(record) {
  const choices = [...form.querySelectorAll(`input[name="group-${record}"]`)];
  if (!choices.length) return;
  const next = choices[(choices.findIndex(choice => choice.checked) + 1) % choices.length];
  next.checked = true;
  next.focus();
}

document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const kind = event.target.type;
  if (kind === "text" || kind === "search") return;
  if (event.key === "u") return press("u");
  if (!form) return;
  if (/^[1-8]$/.test(event.key)) { move(Number(event.key) - 1); event.preventDefault(); return; }
  if (event.key === "Enter" && event.target.tagName !== "BUTTON" && event.target.tagName !== "A" && event.target.tagName !== "SUMMARY") {
    press("Enter");
    event.preventDefault();
    return;
  }
  if ("sdc".includes(event.key)) { press(event.key); return; }
  if (event.key === "w") {
    const why = document.querySelector("details.why");
    if (why) why.open = !why.open;
  }
});

// A second press while an answer is on its way would answer the next question unseen.
for (const each of document.querySelectorAll("form")) {
  let sent = false;
  each.addEventListener("submit", event => {
    if (sent) event.preventDefault();
    sent = true;
  });
}
window.addEventListener("pageshow", event => { if (event.persisted) location.reload(); });

const status = document.querySelector(".status");
async function follow() {
  try {
    const answer = await fetch("/status", { headers: { Accept: "text/html" } });
    if (answer.ok) {
      const text = await answer.text();
      const found = new DOMParser().parseFromString(text, "text/html");
      document.querySelector("#standing").replaceChildren(...found.querySelector("#standing").childNodes);
    }
  } catch { /* The server was stopped: the figures stay as they are. */ }
  window.setTimeout(follow, 3000);
}
if (status) window.setTimeout(follow, 1500);
