import { describe, expect, test } from 'vitest';
import { bodyText, convertOnce } from '../../../adapters/http/body-text.ts';

describe('tools that are sent with every call', () => {
  test('are converted and serialized once while the list has the same elements', () => {
    let read = 0;
    const tool = {
      get name() {
        read += 1;
        return 'search';
      },
    };
    const convert = convertOnce<{ name: string }>(list => list.map(({ name }) => ({ name })));
    const list = [tool];
    for (let call = 0; call < 3; call += 1)
      expect(bodyText({ model: 'm', tools: convert(list) })).toBe(
        '{"model":"m","tools":[{"name":"search"}]}',
      );
    expect(read).toBe(1);
  });

  test('are converted again after the list changed', () => {
    const convert = convertOnce<{ name: string }>(list => list.map(({ name }) => ({ name })));
    const list = [{ name: 'search' }];
    expect(convert(list)).toEqual([{ name: 'search' }]);
    list.push({ name: 'read' });
    expect(bodyText({ tools: convert(list) })).toBe('{"tools":[{"name":"search"},{"name":"read"}]}');
    list.splice(0, 2, { name: 'write' }, { name: 'read' });
    expect(bodyText({ tools: convert(list) })).toBe('{"tools":[{"name":"write"},{"name":"read"}]}');
  });
});
