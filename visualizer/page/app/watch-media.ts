import { type ReadonlySignal, signal } from '@preact/signals';

/** Whether the window fits a media query, such as `(width < 720px)`. */
export function watchMedia(query: string): ReadonlySignal<boolean> {
  const media = matchMedia(query);
  const fits = signal(media.matches);
  media.addEventListener('change', () => (fits.value = media.matches));
  return fits;
}
