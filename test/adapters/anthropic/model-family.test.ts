import { describe, expect, test } from 'vitest';
import { familyOf } from '../../../adapters/anthropic/model-family.ts';

describe('what a model accepts', () => {
  test.each([
    ['claude-fable-5-1', ['adaptive'], 'never', true, true],
    ['claude-mythos-5-2', ['adaptive'], 'never', true, true],
    ['claude-fable-5', ['adaptive'], 'always', false, true],
    ['claude-opus-5-5', ['adaptive'], 'never', true, true],
    ['claude-sonnet-5-5', ['adaptive', 'between_tools'], 'never', true, true],
    ['claude-haiku-5-5', ['adaptive', 'disabled'], 'always', true, true],
    ['claude-opus-5', ['adaptive', 'disabled'], 'unthinking', false, true],
    ['claude-sonnet-5', ['adaptive', 'disabled'], 'unthinking', false, false],
    ['claude-opus-4-8', ['adaptive', 'disabled'], 'unthinking', false, true],
    ['claude-opus-4-6', ['adaptive', 'enabled', 'disabled'], 'unthinking', false, false],
    ['claude-mythos-preview', ['adaptive', 'enabled'], 'unthinking', false, false],
    ['claude-haiku-4-5-20251001', ['enabled', 'disabled'], 'unthinking', false, false],
    ['claude-3-5-haiku-20241022', [], 'unthinking', false, false],
  ])('%s', (model, thinkingModes, forcedChoice, bindsThinking, midConversationSystem) => {
    expect(familyOf(model)).toMatchObject({
      known: true,
      thinkingModes,
      forcedChoice,
      bindsThinking,
      midConversationSystem,
      toolChanges: midConversationSystem,
    });
  });

  test('is the same under the names of other platforms', () => {
    for (const name of [
      'anthropic.claude-opus-5-5',
      'us.anthropic.claude-opus-5-5-v1:0',
      'anthropic/claude-opus-5.5',
      'claude-opus-5-5@20260922',
      'claude-opus-5-5-20260922',
    ]) {
      expect(familyOf(name)).toEqual(familyOf('claude-opus-5-5'));
    }
    expect(familyOf('claude-sonnet-4-20250514')).toEqual(familyOf('claude-sonnet-4'));
  });

  test('is for a later version what the latest known one accepts, and nothing is known to be refused', () => {
    expect(familyOf('claude-opus-6')).toEqual({ ...familyOf('claude-opus-5-5'), known: false });
    expect(familyOf('claude-saga-6')).toMatchObject({ known: false, thinkingModes: ['adaptive'] });
  });

  test('is little for a model of another name, which thinks only on request', () => {
    for (const name of ['qwen3-coder', 'claude', 'claude-tuned-3b']) {
      expect(familyOf(name)).toMatchObject({
        known: false,
        thinksByDefault: false,
        sampling: 'both',
        apiVersion: '2023-06-01',
      });
    }
  });
});
