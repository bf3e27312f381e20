import { isAbsolute, relative, resolve, sep } from 'node:path';

/** Whether a store is named by the address of a PostgreSQL database. */
export function isDatabase(store: string): boolean {
  return /^postgres(ql)?:\/\//i.test(store);
}

/** A store as people read it: a path, or the address of a database without its password. */
export function formatStore(store: string): string {
  return isDatabase(store) ? store.replace(/:\/\/([^:@/]*):[^@/]*@/, '://$1:***@') : formatPath(store);
}

/** A path as people read it: relative to the working directory, or absolute if it is more than one level above. */
export function formatPath(path: string): string {
  const absolute = resolve(path);
  const short = relative(process.cwd(), absolute) || '.';
  return isAbsolute(short) || short.startsWith(`..${sep}..`) ? absolute : short;
}
