import { describe, expect, it } from 'vitest';
import { redactText, showCommand } from '../../tools/mcp/redact-secrets.ts';

describe('what is shown of a server', () => {
  it('has no values of flags that name a secret, and no credentials of URLs', () => {
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

  it('has no values of the environment, the longer ones first, wherever they stand', () => {
    const env = { SHORT: 'ab', KEY: 'abcdef', LONG: 'abcdef-ghi' };
    expect(redactText('bad key abcdef-ghi, not abcdef; ab stays', env)).toBe(
      'bad key ***, not ***; ab stays',
    );
  });
});
