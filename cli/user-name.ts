import { userInfo } from 'node:os';

/** The OS user's name: who decided, unless `--by` says so. */
export function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return process.env.USER ?? 'somebody';
  }
}
