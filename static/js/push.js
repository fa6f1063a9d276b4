// Turns push on here.
export default async ({ form, dataset }) => {
  if (!window.PushManager || await Notification.requestPermission() !== "granted") return tell(dataset.lacks);
  await navigator.serviceWorker.register("/worker.js");
  const { pushManager } = await navigator.serviceWorker.ready;
  await (await pushManager.getSubscription())?.unsubscribe();
  form.subscription.value = JSON.stringify(await pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: dataset.key }));
  form.submit();
};
