// Before anything is drawn, so that a dark page does not begin white.
"use strict";
{
  const name = localStorage.getItem("theme");
  if (name) document.documentElement.dataset.theme = name;
}
