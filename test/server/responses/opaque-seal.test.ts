import { expect, test } from 'vitest';
import type { Item } from '../../../protocol/item.ts';
import { openReasoning, sealReasoning } from '../../../server/gateway/request/sealed-items.ts';

const nested = (levels: number) => JSON.parse(`${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`);
const reasoning = (levels: number): Item => ({
  type: 'reasoning',
  text: 'hm',
  opaque: { provider: 'p', data: nested(levels) },
});

test('opening a seal returns the sealed value', () => {
  expect(openReasoning(sealReasoning([reasoning(50)]))).toEqual({ items: [reasoning(50)], calls: [] });
});

test('a seal that a client forged, nested a thousand deep, is rejected', () => {
  expect(openReasoning(sealReasoning([reasoning(1_000)]))).toBeUndefined();
});
