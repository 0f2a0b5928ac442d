// The versions beside this one, from versions.json, which docs/publish.py writes next to their folders.
document.addEventListener("DOMContentLoaded", async () => {
  const menus = document.querySelectorAll("select.versions");
  if (!menus.length || !location.protocol.startsWith("http")) return; // a file cannot read another one
  const { root, page } = menus[0].dataset;
  const site = new URL(`${root}../`, location.href);
  const found = await fetch(new URL("versions.json", site)).catch(() => null);
  if (!found?.ok) return;
  const versions = await found.json();
  const own = location.pathname.slice(site.pathname.length).split("/")[0];
  for (const menu of menus) {
    menu.replaceChildren(...versions.map(({ folder, name }) => new Option(name, folder)));
    menu.value = own;
    menu.addEventListener("change", async () => {
      const same = new URL(`${menu.value}/${page}`, site);
      const there = await fetch(same, { method: "HEAD" }).catch(() => null);
      location.href = there?.ok ? same : new URL(`${menu.value}/index.html`, site);
    });
  }
});
