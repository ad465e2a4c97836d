// The live part of the page: while somebody looks, its content is replaced by the newest one.
"use strict";
(function () {
  const EVERY_MS = 2000, GONE_MS = 10000;

  function say(text) {
    let line = document.getElementById("live");
    if (!line) {
      line = document.createElement("p");
      line.id = "live";
      document.body.prepend(line);
    }
    line.textContent = text;
  }

  function show(text) {
    const fresh = new DOMParser().parseFromString(text, "text/html"), y = window.scrollY;
    document.title = fresh.title;
    document.body.replaceWith(document.importNode(fresh.body, true));
    window.scrollTo(0, y);
  }

  async function look() {
    let wait = EVERY_MS;
    if (!document.hidden) {
      try {
        const answer = await fetch("/", {cache: "no-store"});
        if (!answer.ok) throw new Error("it answers " + answer.status);
        show(await answer.text());
      } catch (error) {
        say("The run does not answer (" + error.message + "); what follows is the last that it said.");
        wait = GONE_MS;
      }
    }
    setTimeout(look, wait);
  }

  document.addEventListener("DOMContentLoaded", () => setTimeout(look, EVERY_MS));
})();
