/* SPDX-License-Identifier: Apache-2.0 */
/* Refines status.html, which says everything without it: it stays where it was when it is loaded anew, can be held, shows times as
 * they are here, and what a bar is about where nothing hovers. It makes text, never markup. */
"use strict";
(() => {
	const every = Number(document.body.dataset.every) * 1000;
	const key = (what) => "xsbxfs " + what + " " + location.pathname;
	/* A browser may keep nothing for a file. */
	const recall = (what) => {
		try {
			return JSON.parse(sessionStorage.getItem(key(what)));
		} catch {
			return null;
		}
	};
	const keep = (what, value) => {
		try {
			sessionStorage.setItem(key(what), JSON.stringify(value));
		} catch { /* then it begins at its top */ }
	};

	/* Only what somebody has opened or closed is remembered: what is open by itself may be another run by now. */
	const opened = recall("opened") ?? {};
	for (const one of document.querySelectorAll("details[id]")) {
		if (one.id in opened)
			one.open = opened[one.id];
		one.querySelector("summary").addEventListener("click", () => {
			opened[one.id] = !one.open;
			keep("opened", opened);
		});
	}
	scrollTo(0, recall("top") ?? 0);

	for (const one of document.querySelectorAll("time[data-t]"))
		one.title = new Date(one.dataset.t * 1000).toLocaleString();

	const tip = document.getElementById("tip");
	for (const one of document.querySelectorAll("svg .bar")) {
		const tell = () => { tip.textContent = one.textContent; };
		one.addEventListener("click", tell);
		one.addEventListener("mouseenter", tell);
	}

	let held = Boolean(recall("held"));
	const button = document.createElement("button");
	const label = () => {
		button.textContent = held ? "Go on" : "Hold";
		button.title = held ? "Not refreshed since this was loaded" : "Refreshed every " + every / 1000 + " s";
	};
	button.addEventListener("click", () => {
		held = !held;
		keep("held", held);
		label();
	});
	label();
	document.querySelector("header .right").append(button);

	setInterval(() => {
		/* Not under the eyes of somebody who is about to copy something, nor where nobody looks. */
		if (held || document.hidden || !getSelection().isCollapsed)
			return;
		keep("top", scrollY);
		location.reload();
	}, every);
})();
