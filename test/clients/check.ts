/** What `npm run test:clients` plays: a package, and what has to be true of it. */
export type Check = {
  /** As in `--only`. */
  name: string;
  /** In `versions.json`. */
  package: string;
  /** A program on the PATH, without which it is skipped. */
  needs?: string;
  /** `command` is the file that starts the package. Throws if something is wrong; returns what was found. */
  play: (command: string, keeps: boolean) => Promise<string>;
};
