/* A photograph by a camera of this computer, such as a laptop's; phones and tablets have a better way of their own. */

import { button, element } from "./dom.js";
import { icon } from "./icons.js";
import { words } from "./words.js";

const WANTED = { video: { facingMode: "environment", width: { ideal: 1920 }, height: { ideal: 1080 } } };
const QUALITY = 0.92;
/** Browsers hide cameras from pages that others could change on their way. */
const { mediaDevices } = navigator;
const known = mediaDevices?.enumerateDevices().catch(() => []) ?? [];

/** A button that opens the camera; hidden until it is known that there is one. */
export function cameraButton(onFiles) {
  const opens = button(words.start.photograph, () => photograph(onFiles), { kind: "webcam", icon: icon("camera") });
  opens.hidden = true;
  Promise.resolve(known).then((devices) => { opens.hidden = devices.every((each) => each.kind !== "videoinput"); });
  return opens;
}

/** The dialog: what the camera sees, to be taken or not. The camera is on as long as it is open. */
async function photograph(onFiles) {
  const { camera } = words;
  const seen = element("video", { autoplay: true, muted: true, playsinline: true });
  const close = () => dialog.close(); // which gives the focus back
  const take = button(
    camera.take, async () => { const file = await taken(seen); close(); onFiles([file]); },
    { kind: "strong", icon: icon("camera") },
  );
  take.disabled = true;
  const dialog = element(
    "dialog", { class: "question photographing", "aria-labelledby": "photographing" },
    element("h2", { id: "photographing" }, words.start.photograph), seen,
    element("p", { class: "choices" }, button(camera.cancel, close, { kind: "plain" }), take),
  );
  dialog.addEventListener("close", () => { stop(seen.srcObject); dialog.remove(); });
  seen.addEventListener("loadeddata", () => { take.disabled = false; take.focus(); });
  document.body.append(dialog);
  dialog.showModal();
  try {
    const stream = await mediaDevices.getUserMedia(WANTED);
    if (dialog.open) seen.srcObject = stream;
    else stop(stream);
  } catch (error) {
    const refused = error.name === "NotAllowedError" ? camera.refused : camera.failed;
    seen.replaceWith(element("p", { class: "problem", role: "alert" }, refused));
  }
}

/** What the camera sees now, as a file. */
async function taken(seen) {
  const canvas = new OffscreenCanvas(seen.videoWidth, seen.videoHeight);
  canvas.getContext("2d").drawImage(seen, 0, 0);
  const type = "image/jpeg";
  return new File([await canvas.convertToBlob({ type, quality: QUALITY })], words.camera.name, { type });
}

function stop(stream) {
  for (const track of stream?.getTracks() ?? []) track.stop();
}
