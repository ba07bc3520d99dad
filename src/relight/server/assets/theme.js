// Before the first paint: the theme chosen in this browser. No value: as the system has it.
"use strict";
try {
  const theme = localStorage.getItem("relight.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch { /* storage may be forbidden; then it is as the system has it */ }
document.documentElement.classList.add("js");
