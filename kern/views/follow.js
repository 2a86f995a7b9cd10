// Renews the page in place: where it is scrolled to, and what is open in it, stays.
const stale = document.getElementById("stale");
const main = () => document.querySelector("main");
const folds = () => [...document.querySelectorAll("details")];
const gate = (fold) => fold.parentElement.firstElementChild.textContent;
let timer;

async function renew() {
  clearTimeout(timer);
  try {
    if (!document.hidden) {
      const answer = await fetch(location.pathname, { cache: "no-store" });
      const text = await answer.text();
      if (!answer.ok) throw new Error(text);
      const next = new DOMParser().parseFromString(text, "text/html");
      const open = folds().filter((fold) => fold.open).map(gate);
      main().replaceWith(next.querySelector("main"));
      for (const fold of folds()) fold.open = open.includes(gate(fold));
      document.title = next.title;
      stale.hidden = true;
    }
  } catch (fault) {
    if (stale.hidden) stale.dataset.since = new Date().toLocaleTimeString();
    const why = fault instanceof TypeError ? "kern report --serve does not answer" : fault.message;
    stale.textContent = `Not renewed since ${stale.dataset.since}: ${why}`;
    stale.hidden = false;
  }
  timer = setTimeout(renew, 1000 * main().dataset.renew);
}

document.addEventListener("visibilitychange", renew);
timer = setTimeout(renew, 1000 * main().dataset.renew);
