import { describe, expect, it } from 'vitest';
import { maskSecrets, showCommand } from '../../tools/mcp/redact-secrets.ts';

describe('what error messages show of a server', () => {
  it('omits values of secret flags and credentials of URLs', () => {
    const args = [
      '--api-key',
      'one',
      '--token=two',
      '--root',
      '/data',
      'postgres://me:three@db/x',
      '--password',
    ];
    expect(showCommand('serve', args)).toBe(
      'serve --api-key *** --token=*** --root /data postgres://***@db/x --password',
    );
  });

  it('omits values of the environment anywhere in a text, longer values first', () => {
    const env = { SHORT: 'ab', KEY: 'abcdef', LONG: 'abcdef-ghi' };
    expect(maskSecrets('bad key abcdef-ghi, not abcdef; ab stays', env)).toBe(
      'bad key ***, not ***; ab stays',
    );
  });
});
