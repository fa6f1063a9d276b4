// Turns push on here, or the notifications of open pages where there is no way to a push service.
const TOO_SLOW = 1e4;

export default async ({ form, dataset: { key, lacks, pages } }) => {
  if (!window.Notification || await Notification.requestPermission() !== "granted") return tell(lacks);
  await navigator.serviceWorker.register("/worker.js");
  const { pushManager } = await navigator.serviceWorker.ready;
  try {
    await (await pushManager.getSubscription())?.unsubscribe();
    const asked = pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
    form.subscription.value = JSON.stringify(await Promise.race([asked, new Promise((_, fail) => setTimeout(fail, TOO_SLOW))]));
  } catch {
    form.action = pages;
  }
  form.submit();
};
