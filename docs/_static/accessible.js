/* Names for controls that the theme and the gallery leave without one, and a way into wide tables by keyboard. */
document.addEventListener("DOMContentLoaded", () => {
  const text = (element) => element.textContent.replace(/\s+/g, " ").trim();
  document.querySelectorAll("summary").forEach((summary) => {
    if (!text(summary) && !summary.hasAttribute("aria-label")) {
      const link = summary.closest("li")?.querySelector("a");
      summary.setAttribute("aria-label", `Pages of ${link ? text(link) : "this section"}`);
    }
  });
  document.querySelectorAll(".search-button-field").forEach((button) => button.setAttribute("aria-label", text(button)));
  document.querySelectorAll(".sphx-glr-thumbcontainer a").forEach((link) => link.setAttribute("aria-label", text(link)));
  document.querySelectorAll(".bd-article table").forEach((table) => {
    if (table.scrollWidth > table.clientWidth) table.tabIndex = 0;
  });
});
