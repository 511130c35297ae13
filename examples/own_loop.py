"""An agent loop of your own, with hooks around it. The model is a list of replies: replace it with a real model."""

import asyncio

from billhook import Engine, Session, ask, deny, on


@on("PreToolUse", match="send_mail")
def mail_stays_inside(event):
    inside = event.tool_input["to"].endswith("@example.org")
    return ask("Send this mail") if inside else deny("mail goes to example.org only")


TOOLS = {"send_mail": lambda given: f"sent to {given['to']}"}
REPLIES = [
    {"text": "I write to everyone.", "uses": [{"id": "1", "name": "send_mail", "input": {"to": "all@example.com"}}]},
    {"text": "The team, then.", "uses": [{"id": "2", "name": "send_mail", "input": {"to": "team@example.org"}}]},
    {"text": "Done.", "uses": []},
]
model = lambda system, messages: REPLIES.pop(0)


async def main(messages):
    async with Session(Engine([mail_stays_inside]), ask=lambda asked: input(f"{asked.reason}? ") == "yes") as session:
        going = not (await session.prompt(messages[0])).denied
        while going and session.stopped is None:
            reply = model(f"You write mails. {session.take_context()}", messages)
            print(reply["text"])
            messages.append(reply)
            for use in reply["uses"]:
                result = await session.call_tool(use["name"], use["input"], TOOLS[use["name"]], tool_use_id=use["id"])
                print("  error:" if result.is_error else "  result:", result.content)
                messages.append(result)
            if not reply["uses"]:
                ending = await session.stop(reply["text"])
                going = ending.keep_going
                messages.append(ending.reason)


asyncio.run(main(["Tell the team that all tests pass."]))
