import { afterEach } from 'vitest';

type Closable = { close(): unknown };

/** Returns a function that closes what it is given after the test, the last first, and returns it. */
export function closeAfterTests(): <Closed extends Closable>(each: Closed) => Closed {
  const open: Closable[] = [];
  afterEach(async () => {
    for (const each of open.splice(0).reverse()) await each.close();
  });
  return each => {
    open.push(each);
    return each;
  };
}
