import { afterAll, beforeEach, vi } from 'vitest';
import { Gateway } from './gateway.ts';

/** A server that plays a provider; its environment points the adapters to it. */
type PlayedProvider = { readonly environment: Record<string, string>; close(): Promise<void> };

/**
 * Starts a provider and a gateway whose adapters call it, for all tests of a file. Call it at the top of the file: it
 * closes both after the last test.
 */
export async function gatewayOn<Provider extends PlayedProvider>(
  { listen }: { listen(): Promise<Provider> },
  options?: ConstructorParameters<typeof Gateway>[1],
): Promise<{ provider: Provider; gateway: Gateway }> {
  const gateway = new Gateway({}, options);
  const started = listen();
  beforeEach(async () => {
    for (const [name, value] of Object.entries((await started).environment)) vi.stubEnv(name, value);
  });
  afterAll(async () => {
    vi.unstubAllEnvs();
    await gateway.close();
    await (await started).close();
  });
  return { provider: await started, gateway };
}
