/** The servers that the `gateway` workload compares. */
export const PROXY = 'proxy';
export const UNSTORED = 'gateway, unstored';
export const STORED = 'gateway, stored in memory';
export const SQLITE = 'gateway, stored in SQLite';
/** The gateway of `@portkey-ai/gateway`, in `bench/peers`. */
export const PORTKEY = 'Portkey';
