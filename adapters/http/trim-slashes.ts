/** The URL without the slashes it ends with, so that a path can go behind it. */
export function trimSlashes(url: string): string {
  let end = url.length;
  while (url[end - 1] === '/') end -= 1;
  return url.slice(0, end);
}
