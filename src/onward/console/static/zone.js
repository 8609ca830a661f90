// Tells the server the time zone of this browser. Before anything is drawn, so that no page changes before one's eyes.
"use strict";
{
  const mine = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  const told = () => `; ${document.cookie};`.includes(`; onward_zone=${mine};`);
  if (!told()) {
    document.cookie = `onward_zone=${mine}; path=/; max-age=31536000; SameSite=Strict`;
    // Only a page that is not the response to a form has its zone here; others show it from the next page on.
    const shown = document.documentElement.dataset.zone;
    if (shown && shown !== mine && told()) location.reload();
  }
}
