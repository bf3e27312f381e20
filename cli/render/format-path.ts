import { isAbsolute, relative, resolve, sep } from 'node:path';

/** A path as people read it: relative to the working directory, or absolute if it is more than one level above. */
export function formatPath(path: string): string {
  const absolute = resolve(path);
  const short = relative(process.cwd(), absolute) || '.';
  return isAbsolute(short) || short.startsWith(`..${sep}..`) ? absolute : short;
}
