/** Removes trailing slashes, except from the root folder. */
export function trimSlash(path: string): string {
  let end = path.length;
  while (end > 1 && (path[end - 1] === '/' || path[end - 1] === '\\')) end -= 1;
  return path.slice(0, end);
}

/** Returns the absolute path of `path`, which is relative to `root`, uses `/`, and is empty for `root` itself. */
export function joinPath(root: string, path: string): string {
  if (path === '') return root;
  const separator = root.includes('\\') && !root.includes('/') ? '\\' : '/';
  return `${root.endsWith(separator) ? root : root + separator}${path.split('/').join(separator)}`;
}

/** The inverse of `joinPath`; null for a path outside `root`. */
export function relativePath(root: string, path: unknown): string | null {
  if (typeof path !== 'string' || !path.startsWith(root)) return null;
  const rest = path.slice(root.length).replaceAll(root.includes('\\') ? '\\' : '/', '/');
  if (rest !== '' && !rest.startsWith('/') && !/[\\/]$/.test(root)) return null;
  return rest
    .split('/')
    .filter(step => step !== '')
    .join('/');
}
