// Turns push on here, or the notifications of open pages where there is no way to a push service.
const TOO_SLOW = 1e4;

const subscribe = async (applicationServerKey) => {
  const { pushManager } = await navigator.serviceWorker.ready;
  await (await pushManager.getSubscription())?.unsubscribe();
  return pushManager.subscribe({ userVisibleOnly: true, applicationServerKey });
};

export default async ({ form, dataset: { key, lacks, pages } }) => {
  try {
    if (await Notification.requestPermission() !== "granted") return tell(lacks);
    await navigator.serviceWorker.register("/worker.js");
  } catch {
    return tell(lacks);
  }
  const late = new Promise((done) => setTimeout(done, TOO_SLOW));
  const subscription = key && await Promise.race([subscribe(key), late]).catch(() => {});
  if (subscription) form.subscription.value = JSON.stringify(subscription);
  else form.action = pages;
  form.submit();
};
