import { EngineError } from '../../protocol/error.ts';

const PREFIX = 'whsec_';

/**
 * Returns a function that signs a message: HMAC-SHA-256 over `ID.TIMESTAMP.BODY`, as `v1,BASE64`. A secret with the
 * prefix `whsec_` is decoded as base64; any other secret is used as UTF-8. Throws `agent-invalid` for an invalid
 * secret. Source: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 */
export function makeSigner(secret: string): (id: string, timestamp: number, body: string) => Promise<string> {
  const bytes = readSecret(secret);
  const key = crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign']);
  key.catch(() => {});
  return async (id, timestamp, body) => {
    const signed = new TextEncoder().encode(`${id}.${timestamp}.${body}`);
    const signature = new Uint8Array(await crypto.subtle.sign('HMAC', await key, signed));
    return `v1,${btoa(String.fromCharCode(...signature))}`;
  };
}

function readSecret(secret: string): Uint8Array<ArrayBuffer> {
  if (typeof secret !== 'string' || secret === '' || secret === PREFIX)
    throw new EngineError(
      'agent-invalid',
      'webhook() needs a secret, such as whsec_ and 32 bytes in base64.',
    );
  if (!secret.startsWith(PREFIX)) return new TextEncoder().encode(secret);
  try {
    return Uint8Array.from(atob(secret.slice(PREFIX.length)), letter => letter.charCodeAt(0));
  } catch (cause) {
    const message = `The secret of webhook() is not base64 after ${PREFIX}.`;
    throw new EngineError('agent-invalid', message, null, { cause });
  }
}
