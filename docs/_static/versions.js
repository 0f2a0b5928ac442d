// The versions beside this one, from versions.json, which docs/publish.py writes next to their folders.
(async () => {
  const select = document.querySelector("select.versions");
  if (!select || !location.protocol.startsWith("http")) return; // a file cannot read another one
  const site = new URL(`${select.dataset.root}../`, location.href);
  const found = await fetch(new URL("versions.json", site)).catch(() => null);
  if (!found?.ok) return;
  const own = location.pathname.slice(site.pathname.length).split("/")[0];
  const options = (await found.json()).map(({ folder, name }) => new Option(name, folder));
  select.replaceChildren(...options);
  select.value = own;
  select.addEventListener("change", async () => {
    const page = new URL(`${select.value}/${select.dataset.page}`, site);
    const there = await fetch(page, { method: "HEAD" }).catch(() => null);
    location.href = there?.ok ? page : new URL(`${select.value}/index.html`, site);
  });
})();
